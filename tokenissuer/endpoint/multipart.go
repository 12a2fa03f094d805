package endpoint

import (
	"mime"
	"net/url"
	"strings"
	"unicode/utf8"
)

// maxPartHeaders limits the headers of all parts of a multipart body together.
const maxPartHeaders = 8 << 10

// The media types of a form.
const (
	mediaURLEncoded = "application/x-www-form-urlencoded"
	mediaMultipart  = "multipart/form-data"
	mediaJSON       = "application/json"
)

// media is what the Content-Type of a request says of its body.
type media struct {
	name     string // in lower case
	boundary string // of a multipart body
	ascii    bool   // the charset is one whose other half is not UTF-8
}

// mediaType reads the Content-Type of a request. No other parameter but the boundary and a charset that we can read is
// known, so that no proxy in front can read the body in another way than we do.
func mediaType(headers []string) (media, error) {
	if len(headers) == 1 && headers[0] == mediaURLEncoded {
		return media{name: mediaURLEncoded}, nil
	}
	name, params, err := parseContentType(headers)
	if err != nil {
		return media{}, err
	}
	m := media{name: name}
	switch name {
	case mediaURLEncoded, mediaJSON:
	case mediaMultipart:
		m.boundary = params["boundary"]
		if !validBoundary(m.boundary) {
			return media{}, invalidRequest("multipart_malformed")
		}
		delete(params, "boundary")
	default:
		return media{}, invalidRequest("content_type_unsupported")
	}
	var known bool
	if m.ascii, known = charset(params); !known {
		return media{}, invalidRequest("charset_unsupported")
	}
	return m, nil
}

// check refuses a body that is not what its charset says. What a form has escaped are bytes of that charset too.
func (m media) check(body []byte) error {
	if !m.ascii {
		return nil
	}
	text := string(body)
	if m.name == mediaURLEncoded {
		if plain, err := url.QueryUnescape(text); err == nil { // else its parser refuses it
			text = plain
		}
	}
	if !isASCII(text) {
		return invalidRequest("charset_unsupported")
	}
	return nil
}

// charset reads the parameters of a media type, which may have no other than a charset, and reports whether its text may
// hold ASCII alone. Apache HttpClient and others name ISO-8859-1 or US-ASCII unless told otherwise; their ASCII is that of
// UTF-8, and what they would make of the rest is not ours to guess.
func charset(params map[string]string) (ascii, known bool) {
	for name, value := range params {
		if name != "charset" {
			return false, false
		}
		switch strings.ToLower(value) {
		case "utf-8":
		case "us-ascii", "iso-8859-1":
			ascii = true
		default:
			return false, false
		}
	}
	return ascii, true
}

func isASCII(text string) bool {
	return !strings.ContainsFunc(text, func(c rune) bool { return c >= utf8.RuneSelf })
}

// parseContentType reads the one media type that a request or a part must have. The continuations of RFC 2231
// (`boundary*0=`) and bytes outside printable ASCII are refused: readers differ in what they make of them.
func parseContentType(headers []string) (string, map[string]string, error) {
	switch len(headers) {
	case 0:
		return "", nil, invalidRequest("content_type_missing")
	case 1:
	default:
		return "", nil, invalidRequest("content_type_duplicate")
	}
	odd := func(c rune) bool { return c == '*' || c < ' ' || c > '~' }
	media, params, err := mime.ParseMediaType(headers[0])
	if err != nil || strings.ContainsFunc(headers[0], odd) {
		return "", nil, invalidRequest("content_type_malformed")
	}
	return media, params, nil
}

// validBoundary holds the boundary to RFC 2046 §5.1.1, without the space that it allows within.
func validBoundary(boundary string) bool {
	const letters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	return boundary != "" && len(boundary) <= 70 && strings.Trim(boundary, letters+"'()+_,-./:=?") == ""
}

// parseMultipart reads simple fields (RFC 7578), as `curl -F` sends them. The body is in memory already and is cut at
// the boundary: nothing may stand before the first one or after the last, and lines end in CRLF. mime/multipart is
// more forgiving than a token endpoint should be.
func parseMultipart(body, boundary string) (form, error) {
	malformed := invalidRequest("multipart_malformed")
	delimiter := "\r\n--" + boundary
	rest, ok := strings.CutPrefix(body, delimiter[len("\r\n"):])
	if !ok {
		return form{}, malformed
	}
	var f form
	for headers := 0; ; {
		switch rest {
		case "--", "--\r\n":
			return f, nil
		}
		if rest, ok = strings.CutPrefix(rest, "\r\n"); !ok {
			return form{}, malformed
		}
		var part string
		if part, rest, ok = strings.Cut(rest, delimiter); !ok {
			return form{}, malformed // truncated
		}
		header, value, ok := strings.Cut(part, "\r\n\r\n")
		if headers += len(header); !ok || headers > maxPartHeaders {
			return form{}, malformed
		}
		name, ascii, err := fieldName(header)
		if err != nil {
			return form{}, err
		}
		if ascii && !isASCII(value) {
			return form{}, invalidRequest("charset_unsupported")
		}
		if err := f.add(name, value); err != nil {
			return form{}, err
		}
	}
}

// fieldName reads the headers of one part. It returns the name of its field, and whether its value must be ASCII. A part
// that is more than a field of plain text is refused: a file, a multipart within, an encoding that changes its bytes
// (RFC 7578 §4.7).
func fieldName(header string) (field string, ascii bool, err error) {
	var dispositions, types, encodings []string
	for line := range strings.SplitSeq(header, "\r\n") {
		name, value, ok := strings.Cut(line, ":")
		if !ok || !validName(name) || strings.ContainsAny(value, "\r\n\x00") {
			return "", false, invalidRequest("multipart_malformed") // a folded line has no valid name either
		}
		switch strings.ToLower(name) {
		case "content-disposition":
			dispositions = append(dispositions, strings.TrimSpace(value))
		case "content-type":
			types = append(types, strings.TrimSpace(value))
		case "content-transfer-encoding":
			encodings = append(encodings, strings.ToLower(strings.TrimSpace(value)))
		}
	}
	unsupported := invalidRequest("multipart_part_unsupported")
	if types != nil {
		name, params, err := parseContentType(types)
		if err != nil {
			return "", false, err
		}
		known := false
		if ascii, known = charset(params); name != "text/plain" || !known {
			return "", false, unsupported
		}
	}
	switch {
	case encodings == nil:
	case len(encodings) == 1 && encodings[0] == "7bit":
		ascii = true
	case len(encodings) == 1 && (encodings[0] == "8bit" || encodings[0] == "binary"):
	default:
		return "", false, unsupported
	}
	disposition, params, err := parseContentType(dispositions)
	if err != nil {
		return "", false, invalidRequest("multipart_malformed")
	}
	if name, named := params["name"]; named && len(params) == 1 && disposition == "form-data" {
		return name, ascii, nil
	}
	return "", false, unsupported
}
