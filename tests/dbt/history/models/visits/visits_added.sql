{{ config(incremental_strategy='append', on_schema_change='append_new_columns') }}
select *, {{ 'true' if is_incremental() else 'false' }} as is_later
from {{ ref('visits') }}
{% if is_incremental() %}
where id > (select max(id) from {{ this }})
{% endif %}
