{%- macro key(columns) -%}
    {{ return(adapter.dispatch('key', 'tools')(columns)) }}
{% endmacro %}

{%- macro default__key(columns) -%}
{%- set fields = [] -%}
{%- for column in columns -%}
    {%- do fields.append("coalesce(cast(" ~ column ~ " as " ~ dbt.type_string() ~ "), '_null_')") -%}
    {%- if not loop.last %}{%- do fields.append("'-'") -%}{%- endif -%}
{%- endfor -%}
{{ dbt.hash(dbt.concat(fields)) }}
{%- endmacro -%}

{% macro most() %}{{ var('most') }}{% endmacro %}

{% test rows_at_least(model, least) %}
{% if execute %}
select n from (select count(*) as n from {{ model }}) counted where n < {{ least }}
{% endif %}
{% endtest %}
