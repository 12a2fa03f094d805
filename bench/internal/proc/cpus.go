package proc

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
)

// CPUs lists processors by number; none: all.
type CPUs []int

// String formats the numbers, such as "0,1".
func (c CPUs) String() string {
	if len(c) == 0 {
		return "all processors"
	}
	numbers := make([]string, len(c))
	for i, n := range c {
		numbers[i] = strconv.Itoa(n)
	}
	return strings.Join(numbers, ",")
}

// Halves divides the processors that this process may use: the first count go to the servers, the others to the load
// and the upstream. If that is not possible, it returns an error, and no process is bound.
func Halves(count int) (servers, load CPUs, err error) {
	all, err := allowed()
	switch {
	case err != nil:
		return nil, nil, err
	case count >= len(all):
		return nil, nil, fmt.Errorf("%d processors cannot be kept for the servers: there are %d", count, len(all))
	}
	return all[:count], all[count:], nil
}

// BindSelf binds this process, and the children that it starts afterwards, to processors.
func BindSelf(cpus CPUs) error {
	if len(cpus) == 0 {
		return nil
	}
	runtime.GOMAXPROCS(len(cpus))
	return bindSelf(cpus)
}
