{# Money as whole cents. #}
{% macro cents(column) -%}
    cast(round({{ column }} * {{ hundred() }}) as bigint)
{%- endmacro %}

{% macro hundred() %}{{ return(100) }}{% endmacro %}
