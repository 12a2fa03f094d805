package oauth

import (
	"encoding/base64"
	"strings"
)

var strictBase64 = base64.RawURLEncoding.Strict()

// DecodeBase64URL decodes one part. Strict refuses stray bits, but Go's decoder skips line breaks anywhere, so those are
// refused here. The bytes come behind those of the buffer, which is replaced when it has no room.
func DecodeBase64URL(buffer []byte, part string) ([]byte, error) {
	if strings.IndexByte(part, '\r') >= 0 || strings.IndexByte(part, '\n') >= 0 {
		return nil, base64.CorruptInputError(0)
	}
	return strictBase64.AppendDecode(buffer, BytesOf(part))
}
