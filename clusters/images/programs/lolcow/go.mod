module lva.io/operators/clusters/images/programs/lolcow

go 1.26.0
