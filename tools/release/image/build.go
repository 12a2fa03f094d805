package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// build is what an image is made of, besides the Dockerfile.
type build struct {
	root, arch string
	epoch      time.Time
	variables  map[string]string
}

// write writes the image of a Dockerfile into a file.
func (b *build) write(dockerfile, name, output string) error {
	text, err := os.ReadFile(dockerfile)
	if err != nil {
		return err
	}
	s, err := parseDockerfile(string(text), b.variables)
	if err != nil {
		return fmt.Errorf("%s: %w", dockerfile, err)
	}
	image, err := b.image(s)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "image")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	to, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	_, tag, _ := strings.Cut(name, ":")
	err = to.AppendImage(image, layout.WithPlatform(v1.Platform{OS: "linux", Architecture: b.arch}), layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": tag, // umoci, skopeo and podman
		"io.containerd.image.name":          name,
	}))
	if err != nil {
		return err
	}
	files, err := b.files([]copied{{from: "/", to: "/"}}, dir)
	if err != nil {
		return err
	}
	content, err := b.tar(files)
	if err != nil {
		return err
	}
	return os.WriteFile(output, content, 0o644)
}

// image has one layer.
func (b *build) image(s *stage) (v1.Image, error) {
	copies := slices.Clone(s.copies)
	for i, c := range copies {
		inImage, found := strings.CutPrefix(c.from, "/image/")
		if !found {
			return nil, fmt.Errorf("%s is not below /image", c.from)
		}
		copies[i].from = "/" + inImage
	}
	files, err := b.files(copies, b.root)
	if err != nil {
		return nil, err
	}
	content, err := b.tar(files)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	base, err = mutate.ConfigFile(base, &v1.ConfigFile{
		Architecture: b.arch, OS: "linux", Created: v1.Time{Time: b.epoch}, Config: s.config, RootFS: v1.RootFS{Type: "layers"},
	})
	if err != nil {
		return nil, err
	}
	return mutate.Append(base, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: b.epoch}, CreatedBy: "packaging/Dockerfile"}})
}

// file is what a tar file has of a path.
type file struct {
	source   string
	info     fs.FileInfo
	uid, gid int
}

// files returns what directories below root become, by path. A later one replaces what an earlier one has given.
func (b *build) files(copies []copied, root string) (map[string]file, error) {
	files := make(map[string]file)
	for _, c := range copies {
		from := filepath.Join(root, filepath.FromSlash(c.from))
		err := filepath.WalkDir(from, func(source string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			relative, err := filepath.Rel(from, source)
			if err != nil {
				return err
			}
			info, err := entry.Info()
			if err != nil {
				return err
			}
			if !info.IsDir() && !info.Mode().IsRegular() {
				return fmt.Errorf("%s is neither a file nor a directory", source)
			}
			if name := strings.TrimPrefix(path.Join(c.to, filepath.ToSlash(relative)), "/"); name != "" {
				files[name] = file{source: source, info: info, uid: c.uid, gid: c.gid}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}

// tar returns files in the order of their paths.
func (b *build) tar(files map[string]file) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f := files[name]
		header, err := tar.FileInfoHeader(f.info, "")
		if err != nil {
			return nil, err
		}
		header.Name, header.Uid, header.Gid, header.Uname, header.Gname = name, f.uid, f.gid, "", ""
		header.ModTime, header.AccessTime, header.ChangeTime, header.Format = b.epoch, time.Time{}, time.Time{}, tar.FormatPAX
		var content []byte
		if f.info.IsDir() {
			header.Name += "/"
		} else if content, err = os.ReadFile(f.source); err != nil {
			return nil, err
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
