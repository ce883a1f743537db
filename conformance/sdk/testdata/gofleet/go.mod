module example.com/gofleet

go 1.24

require github.com/kvasir-router/kvasir/sdk/go v0.0.0

replace github.com/kvasir-router/kvasir/sdk/go => ../../../../sdk/go
