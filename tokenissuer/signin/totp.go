package signin

import (
	"bytes"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base32"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"net/url"
	"strings"
	"time"

	"github.com/boombuler/barcode/qr"
	"github.com/pquerna/otp"
	"github.com/pquerna/otp/hotp"
)

// Parameters of TOTP (RFC 6238), those that every authenticator supports.
const (
	totpPeriod = 30 * time.Second
	totpDigits = otp.DigitsSix
	// totpSkew is how many periods the clock of the authenticator may differ.
	totpSkew = 1
	// totpSecretBytes is the length of a secret (RFC 4226 §4, R6).
	totpSecretBytes = 20
)

var secretEncoding = base32.StdEncoding.WithPadding(base32.NoPadding)

// newTOTPSecret returns a new secret in base32, as authenticators read it.
func newTOTPSecret() string {
	secret := make([]byte, totpSecretBytes)
	_, _ = rand.Read(secret) // never fails
	return secretEncoding.EncodeToString(secret)
}

// totpStep returns the number of the period at a time.
func totpStep(at time.Time) int64 { return at.Unix() / int64(totpPeriod/time.Second) }

// matchTOTP returns the period whose code was typed, and whether there is one within the skew. It compares every code, in constant time.
func matchTOTP(secret, code string, now time.Time) (step int64, matches bool) {
	for at := totpStep(now) - totpSkew; at <= totpStep(now)+totpSkew; at++ {
		want, err := hotp.GenerateCodeCustom(secret, uint64(at), hotp.ValidateOpts{Digits: totpDigits, Algorithm: otp.AlgorithmSHA1}) //lint:ignore gosec times are after 1970
		if err == nil && subtle.ConstantTimeCompare([]byte(want), []byte(code)) == 1 {
			step, matches = at, true
		}
	}
	return step, matches
}

// totpURI returns the URI that an authenticator reads from a picture.
func totpURI(secret, issuer, account string) string {
	label := url.PathEscape(strings.ReplaceAll(issuer, ":", " ")) + ":" + url.PathEscape(account)
	query := url.Values{"secret": {secret}, "issuer": {strings.ReplaceAll(issuer, ":", " ")}}
	return "otpauth://totp/" + label + "?" + strings.ReplaceAll(query.Encode(), "+", "%20")
}

// totpPicture returns a QR picture of a URI, as PNG.
func totpPicture(uri string) ([]byte, error) {
	code, err := qr.Encode(uri, qr.M, qr.Auto)
	if err != nil {
		return nil, fmt.Errorf("a picture of the secret: %w", err)
	}
	modules := code.Bounds().Dx()
	size := (modules + 2*quietModules) * moduleSize
	picture := image.NewPaletted(image.Rect(0, 0, size, size), color.Palette{color.White, color.Black})
	for y := range modules {
		for x := range modules {
			if code.At(x, y) != color.Black {
				continue
			}
			corner := image.Pt((x+quietModules)*moduleSize, (y+quietModules)*moduleSize)
			draw.Draw(picture, image.Rectangle{corner, corner.Add(image.Pt(moduleSize, moduleSize))}, image.Black, image.Point{}, draw.Src)
		}
	}
	var out bytes.Buffer
	if err := png.Encode(&out, picture); err != nil {
		return nil, fmt.Errorf("a picture of the secret: %w", err)
	}
	return out.Bytes(), nil
}

// A module of the picture is a square of moduleSize pixels. quietModules is the margin that readers need, in modules.
const (
	moduleSize   = 5
	quietModules = 4
)
