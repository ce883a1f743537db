module github.com/kvasir-router/kvasir/sdk/go

go 1.24
