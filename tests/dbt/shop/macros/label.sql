{% macro label(column, prefix='n') %}{{ adapter.dispatch('label')(column, prefix) }}{% endmacro %}
{% macro default__label(column, prefix) %}concat('{{ prefix }}: ', {{ column }}){% endmacro %}
{% macro spark__label(column, prefix) %}concat('{{ prefix }}- ', {{ column }}){% endmacro %}
{% macro ask() %}{% set found = run_query('select 1') %}{{ return(found) }}{% endmacro %}
