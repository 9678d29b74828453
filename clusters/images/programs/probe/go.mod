module lva.io/operators/clusters/images/programs/probe

go 1.26.0
