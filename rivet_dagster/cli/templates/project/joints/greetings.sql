-- rivet:description: Replace this joint by your own; a source is a file in sources/, as `init --example` shows.
-- rivet:catalog: warehouse
-- rivet:assert: not_null(word)
SELECT 'hello' AS word
