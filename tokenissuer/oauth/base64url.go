package oauth

import (
	"encoding/base64"
	"strings"
)

var strictBase64 = base64.RawURLEncoding.Strict()

// DecodeBase64URL appends the decoded bytes of one part to the buffer, and returns the extended buffer. It refuses
// stray bits, and also line breaks, which Go's strict decoder skips.
func DecodeBase64URL(buffer []byte, part string) ([]byte, error) {
	if strings.IndexByte(part, '\r') >= 0 || strings.IndexByte(part, '\n') >= 0 {
		return nil, base64.CorruptInputError(0)
	}
	return strictBase64.AppendDecode(buffer, BytesOf(part))
}
