package tokenissuer

import (
	"encoding/base64"
	"strings"
)

var strictBase64 = base64.RawURLEncoding.Strict()

// decodePart decodes one part. Strict refuses stray bits, but Go's decoder skips line breaks anywhere, so those are
// refused here. The bytes come behind those of the buffer, which is replaced when it has no room.
func decodePart(buffer []byte, part string) ([]byte, error) {
	if strings.IndexByte(part, '\r') >= 0 || strings.IndexByte(part, '\n') >= 0 {
		return nil, base64.CorruptInputError(0)
	}
	return strictBase64.AppendDecode(buffer, bytesOf(part))
}
