module lva.io/operators/labs/09-webapp

go 1.26.0
