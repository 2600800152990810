module delayed-test

go 1.19

require (
	github.com/gomodule/redigo v1.8.9
	github.com/shamaton/msgpack/v2 v2.1.1
)
