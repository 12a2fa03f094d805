package proc

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
)

// CPUs are processors by number; none: all.
type CPUs []int

// String is such as "0,1".
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

// Halves deals out the processors that this process may use: count of them, the first, to the servers, and the others to the
// load and to the upstream. It fails where that is not possible, and then nobody is bound to anything.
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

// BindSelf binds this process, and the children that it starts from now on, to processors.
func BindSelf(cpus CPUs) error {
	if len(cpus) == 0 {
		return nil
	}
	runtime.GOMAXPROCS(len(cpus))
	return bindSelf(cpus)
}
