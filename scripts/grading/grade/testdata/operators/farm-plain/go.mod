module example.com/plainfarm

go 1.26.0
