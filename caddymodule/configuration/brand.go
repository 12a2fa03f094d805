package configuration

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
)

// Brand is the name and logo on the pages.
type Brand struct {
	// Name stands at the top of each page. Default: Gatehouse.
	Name string `json:"name,omitempty"`
	// Logo is an image file: .svg, .png, .jpg or .webp, of at most 64 KiB. It is read when the configuration is loaded.
	Logo string `json:"logo,omitempty"`
}

// maxLogo bounds the size of a logo in bytes: every page contains it.
const maxLogo = 64 << 10

// logoTypes are the media types of logos, by the file's suffix.
var logoTypes = map[string]string{
	".svg": "image/svg+xml", ".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".webp": "image/webp",
}

// parseBrand reads `brand [<name>] { logo <file> }`.
func parseBrand(d *caddyfile.Dispenser, brand **Brand, at *Sources) error {
	if err := setting.Once(d, "brand", *brand != nil); err != nil {
		return err
	}
	c := orNew(brand)
	args := d.RemainingArgs()
	if len(args) > 1 {
		return d.ArgErr()
	}
	if len(args) == 1 {
		if c.Name = args[0]; c.Name == "" {
			return d.Errf("the brand is empty; is a variable unset?")
		}
	}
	first := *d
	err := options{"logo": with(&c.Logo, at, parseLogo)}.parse(d, "unknown brand option %q")
	if err == nil && *c == (Brand{}) {
		err = first.ArgErr()
	}
	return err
}

func parseLogo(d *caddyfile.Dispenser, logo *string, at *Sources) error {
	at.note(d, "logo")
	if err := setting.TextOrPlaceholder(d, logo); err != nil || setting.IsPlaceholder(*logo) { // its suffix is known only when the server starts
		return err
	}
	if _, err := logoType(*logo); err != nil {
		return d.Errf("%v", err)
	}
	return nil
}

// read reads the logo's file.
func (c *Brand) read(s *Settings, at *Sources) error {
	if c == nil {
		return nil
	}
	s.Brand.Name = c.Name
	if c.Logo == "" {
		return nil
	}
	path, err := setting.Resolve("logo", c.Logo)
	if err == nil {
		s.Brand.Logo, err = readLogo(path)
	}
	return at.At(err, "logo")
}

// logoType returns the media type of a logo.
func logoType(path string) (string, error) {
	media, known := logoTypes[strings.ToLower(filepath.Ext(path))]
	if !known {
		return "", fmt.Errorf("logo %s: use a file that ends in .svg, .png, .jpg or .webp", path)
	}
	return media, nil
}

// readLogo reads the file of a logo.
func readLogo(path string) (*pages.Logo, error) {
	media, err := logoType(path)
	if err != nil {
		return nil, err
	}
	// A pipe or a device could keep the server from starting.
	if info, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("logo: %w", err)
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("logo %s: this is no regular file", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("logo: %w", err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxLogo+1))
	if err != nil {
		return nil, fmt.Errorf("logo: %w", err)
	}
	if len(data) > maxLogo {
		return nil, fmt.Errorf("logo %s: it has more than %d bytes, and every page carries it", path, maxLogo)
	}
	return &pages.Logo{MediaType: media, Data: data}, nil
}
