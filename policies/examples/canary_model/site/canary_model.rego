package site

import data.kvasir.admission

# METADATA
# title: A share of the users uses the next model
# description: |
#   A user always gets the same model, so that answers and cached prefixes do not
#   change. A tenant that may not use the next model keeps the requested one.
# labels: {id: canary_model}
model := canary.to if {
	admission.may_use(canary.to)
	position < canary.share * 256
}

canary := data.site_data.canary_model[input.request.model]

# The position of this user: 0 to 255, from the first byte of a hash.
position := (16 * indexof(hex_digits, substring(digest, 0, 1))) + indexof(hex_digits, substring(digest, 1, 1))

digest := crypto.sha256(concat("/", [input.request.model, input.tenant.id, input.tenant.user]))

hex_digits := "0123456789abcdef"
