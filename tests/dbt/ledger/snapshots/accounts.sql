{% snapshot accounts_by_time %}
{{ config(unique_key='id', strategy='timestamp', updated_at='changed_at') }}
select * from {{ ref('accounts') }}
{% endsnapshot %}

{% snapshot accounts_by_plan %}
{{ config(unique_key='id', strategy='check', check_cols=['plan'], hard_deletes='invalidate') }}
select id, plan from {{ ref('accounts') }}
{% endsnapshot %}
