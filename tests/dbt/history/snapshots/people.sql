{% snapshot people_by_time %}
{{ config(unique_key='id', strategy='timestamp', updated_at='changed_at') }}
select * from {{ ref('people') }}
{% endsnapshot %}

{% snapshot people_by_city %}
{{ config(unique_key='id', strategy='check', check_cols=['city']) }}
select id, city from {{ ref('people') }}
{% endsnapshot %}
