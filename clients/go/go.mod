module github.com/kafka-group-shim/kafka-group-shim/clients/go

go 1.19
