{% macro hashed_key(columns) -%}
    {{ return(adapter.dispatch('hashed_key', 'handy')(columns)) }}
{%- endmacro %}

{% macro default__hashed_key(columns) -%}
    md5(
        {%- for column in columns -%}
            coalesce(cast({{ column }} as string), '_null_')
            {%- if not loop.last %} || '-' || {% endif -%}
        {%- endfor -%}
    )
{%- endmacro %}

{% macro ratio(above, below) -%}
    {{ above }} / nullif({{ below }}, 0)
{%- endmacro %}
