// Image builds the container image that packaging/Dockerfile describes, without a daemon, and writes it as a tar file in the OCI image layout,
// which docker load (25 and later), podman load, ctr image import and skopeo read. The same input gives the same bytes.
//
//	image -dockerfile packaging/Dockerfile -root DIR -arch arm64 -version 0.1.0 -epoch 1700000000 -name gatehouse:0.1.0 -o gatehouse.tar
//
// It reads the last stage only. The stage before it, which compiles, is what ./xcaddy.sh and packaging/rootfs have done: its /image is DIR.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"
)

func main() {
	var b build
	dockerfile := flag.String("dockerfile", "packaging/Dockerfile", "the description of the image")
	flag.StringVar(&b.root, "root", "", "the directory that is /image of the build stage")
	flag.StringVar(&b.arch, "arch", "amd64", "the architecture, as Go names it")
	version := flag.String("version", "devel", "what the Dockerfile calls $VERSION")
	epoch := flag.Int64("epoch", 0, "the time of everything, in seconds since 1970")
	name := flag.String("name", "gatehouse:devel", "the name of the image")
	output := flag.String("o", "gatehouse.tar", "the file")
	flag.Parse()

	b.epoch = time.Unix(*epoch, 0).UTC()
	b.variables = map[string]string{"VERSION": *version}
	if err := b.write(*dockerfile, *name, *output); err != nil {
		fmt.Fprintf(os.Stderr, "image: %v\n", err)
		os.Exit(1)
	}
}
