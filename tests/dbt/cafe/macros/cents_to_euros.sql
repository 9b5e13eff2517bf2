{% macro cents_to_euros(column, digits=2) -%}
    cast({{ column }} / 100 as decimal(16, {{ digits }}))
{%- endmacro %}
