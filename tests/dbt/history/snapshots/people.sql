{% snapshot people_by_time %}
{{ config(unique_key='id', strategy='timestamp', updated_at='changed_at') }}
select * from {{ ref('people') }}
{% endsnapshot %}

{% snapshot people_by_city %}
{{ config(unique_key='id', strategy='check', check_cols=['city']) }}
select id, city from {{ ref('people') }}
{% endsnapshot %}

{% snapshot people_by_two %}
{{ config(unique_key=['id', 'name'], strategy='check', check_cols=['city'], hard_deletes='invalidate') }}
select id, name, city from {{ ref('people') }}
{% endsnapshot %}

{% snapshot people_named %}
{{ config(
    unique_key='id', strategy='timestamp', updated_at='changed_at', hard_deletes='invalidate',
    snapshot_meta_column_names={'dbt_valid_from': 'since', 'dbt_valid_to': 'until'}
) }}
select id, name, changed_at from {{ ref('people') }} where id <> 4
{% endsnapshot %}

{% snapshot people_until %}
{{ config(
    unique_key='id', strategy='timestamp', updated_at='changed_at', dbt_valid_to_current="timestamp'9999-12-31'"
) }}
select * from {{ ref('people') }}
{% endsnapshot %}

{% snapshot people_gone %}
{{ config(unique_key='id', strategy='timestamp', updated_at='changed_at', hard_deletes='new_record') }}
select * from {{ ref('people') }}
{% endsnapshot %}
