# METADATA
# scope: subpackages
# schemas:
# - input: schema.input
# - data.kvasir.admission.tenant: schema.tenant
# - data.kvasir.affinity.class: schema.class

# METADATA
# title: What this site adds to the shipped policy
# description: |
#   These rules are read from here, and each can only narrow what the shipped
#   policy allows:
#
#     denials contains "a_reason" if …                      refuses with 403
#     retry contains "a_reason"                             … with 429: it passes with time
#     constraints contains {"label", "op", "values"} if …   demands of endpoints
#     model := "another" if …                               a model the tenant may use anyway
#     admin_denials contains "a_reason" if …                refuses a call of the admin API
#     backend_denials contains "a_reason" if …              refuses an endpoint
#
#   Any number of files may carry `package site`; examples/ has some.
package site
