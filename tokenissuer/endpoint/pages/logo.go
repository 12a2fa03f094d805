package pages

import (
	"bytes"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"html/template"
	"io"
)

// Logo is an image that is embedded into each page, so that pages load nothing.
type Logo struct {
	MediaType string
	Data      []byte
}

// maxLogo is the maximum size of a logo in bytes, because every page contains it.
const maxLogo = 64 << 10

// formats maps a media type to a check of a file's content.
var formats = map[string]func(data []byte) bool{
	"image/png":  func(data []byte) bool { return bytes.HasPrefix(data, []byte("\x89PNG\r\n\x1a\n")) },
	"image/jpeg": func(data []byte) bool { return bytes.HasPrefix(data, []byte("\xff\xd8\xff")) },
	"image/webp": func(data []byte) bool {
		return len(data) >= 12 && bytes.HasPrefix(data, []byte("RIFF")) && string(data[8:12]) == "WEBP"
	},
	"image/svg+xml": isSVG,
}

// dataURL returns the logo as a data URL. An SVG in an img element runs no scripts and loads nothing.
func (l *Logo) dataURL() (template.URL, error) {
	recognise, known := formats[l.MediaType]
	switch {
	case !known:
		return "", fmt.Errorf("media type %.64q: use image/png, image/jpeg, image/webp or image/svg+xml", l.MediaType)
	case len(l.Data) > maxLogo:
		return "", fmt.Errorf("%d bytes are too many: use at most %d", len(l.Data), maxLogo)
	case !recognise(l.Data):
		return "", errors.New("the file is no " + l.MediaType)
	}
	encoded := base64.StdEncoding.EncodeToString(l.Data)
	return template.URL("data:" + l.MediaType + ";base64," + encoded), nil //lint:ignore gosec both parts are checked
}

// isSVG reports whether data is well-formed XML whose root element is svg.
func isSVG(data []byte) bool {
	decoder := xml.NewDecoder(bytes.NewReader(data))
	for root := ""; ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return root == "svg"
		}
		if err != nil {
			return false
		}
		if start, ok := token.(xml.StartElement); ok && root == "" {
			root = start.Name.Local
		}
	}
}
