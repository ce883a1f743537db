# METADATA
# scope: subpackages
# schemas:
# - input: schema.input
# - data.kvasir.admission.tenant: schema.tenant
# - data.kvasir.affinity.class: schema.class

# METADATA
# title: Rules that this site adds to the shipped policy
# description: |
#   The shipped policy reads these rules, and each can only narrow what it
#   allows:
#
#     denials contains "a_reason" if …                      refuses with 403
#     retry contains "a_reason"                             … with 429: a later attempt may succeed
#     constraints contains {"label", "op", "values"} if …   restricts the endpoints
#     model := "another" if …                               another model that the tenant may request
#     admin_denials contains "a_reason" if …                refuses a call of the admin API
#     backend_denials contains "a_reason" if …              refuses an endpoint
#
#   Any number of files may have `package site`; see examples/.
package site
