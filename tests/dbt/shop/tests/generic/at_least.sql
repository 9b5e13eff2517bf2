{% test at_least(model, column_name, least=0) %}
select * from {{ model }} where {{ column_name }} < {{ least }}
{% endtest %}
