{% test rows_between(model, least, most) %}
select count(*) as rows from {{ model }} having count(*) not between {{ least }} and {{ most }}
{% endtest %}

{% test is_true(model, expression) %}
select * from {{ model }} where not ({{ expression }})
{% endtest %}
