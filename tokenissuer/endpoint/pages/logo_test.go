package pages

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"
)

func TestLogoIsEmbedded(t *testing.T) {
	for _, test := range []struct {
		name, media string
		data        []byte
	}{
		{"png", "image/png", []byte("\x89PNG\r\n\x1a\nrest")},
		{"jpeg", "image/jpeg", []byte("\xff\xd8\xff\xe0rest")},
		{"webp", "image/webp", []byte("RIFF\x04\x00\x00\x00WEBPVP8 ")},
		{"svg", "image/svg+xml", append([]byte(`<?xml version="1.0"?><!-- ours -->`), svg...)},
		{"as large as it may be", "image/png", append([]byte("\x89PNG\r\n\x1a\n"), make([]byte, maxLogo-8)...)},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := open(t, Settings{Logo: &Logo{MediaType: test.media, Data: test.data}})
			image := parse(t, render(t, p, "en", SignIn{})).all("img")
			if len(image) != 1 {
				t.Fatalf("%d images", len(image))
			}
			source, _ := attr(image[0], "src")
			data, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(source, "data:"+test.media+";base64,"))
			if err != nil || !bytes.Equal(data, test.data) {
				t.Errorf("source %.80q: %v", source, err)
			}
			if alt, has := attr(image[0], "alt"); !has || alt != "" {
				t.Error("the name, which stands beside it, is said twice")
			}
		})
	}
}

func TestLogoThatCannotBeEmbeddedIsRefused(t *testing.T) {
	for _, test := range []struct {
		name, media string
		data        []byte
		want        string
	}{
		{"other type", "image/gif", []byte("GIF89a"), `logo: media type "image/gif": use image/png`},
		{"page", "text/html", []byte("<p>"), `logo: media type "text/html"`},
		{"parameter", "image/png;x", []byte("\x89PNG\r\n\x1a\n"), "logo: media type"},
		{"no type", "", svg, "logo: media type"},
		{"too large", "image/png", append([]byte("\x89PNG\r\n\x1a\n"), make([]byte, maxLogo)...), "logo: 65544 bytes are too many"},
		{"empty", "image/png", nil, "logo: the file is no image/png"},
		{"something else", "image/jpeg", []byte("\x89PNG\r\n\x1a\n"), "logo: the file is no image/jpeg"},
		{"short webp", "image/webp", []byte("RIFF"), "logo: the file is no image/webp"},
		{"markup that is no svg", "image/svg+xml", []byte("<html><svg/></html>"), "logo: the file is no image/svg+xml"},
		{"broken svg", "image/svg+xml", []byte("<svg>"), "logo: the file is no image/svg+xml"},
		{"no markup", "image/svg+xml", []byte("svg"), "logo: the file is no image/svg+xml"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := New(Settings{Logo: &Logo{MediaType: test.media, Data: test.data}})
			if err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("%v, want %s", err, test.want)
			}
		})
	}
}
