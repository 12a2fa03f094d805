package endpoint

import (
	"mime"
	"strings"
)

// maxPartHeaders limits the headers of all parts of a multipart body together.
const maxPartHeaders = 8 << 10

// The media types of a form.
const (
	mediaURLEncoded = "application/x-www-form-urlencoded"
	mediaMultipart  = "multipart/form-data"
	mediaJSON       = "application/json"
)

// mediaType reads the Content-Type of a request: the type in lower case, and the boundary of a multipart one. No
// other parameter but charset=utf-8 is known, so that no proxy in front can read the body in another way than we do.
func mediaType(headers []string) (media, boundary string, err error) {
	if len(headers) == 1 && headers[0] == mediaURLEncoded {
		return mediaURLEncoded, "", nil
	}
	media, params, err := parseContentType(headers)
	if err != nil {
		return "", "", err
	}
	switch media {
	case mediaURLEncoded, mediaJSON:
	case mediaMultipart:
		boundary = params["boundary"]
		if !validBoundary(boundary) {
			return "", "", invalidRequest("multipart_malformed")
		}
		delete(params, "boundary")
	default:
		return "", "", invalidRequest("content_type_unsupported")
	}
	if !onlyUTF8(params) {
		return "", "", invalidRequest("charset_unsupported")
	}
	return media, boundary, nil
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

// onlyUTF8 tells whether a media type has no parameter but, perhaps, charset=utf-8.
func onlyUTF8(params map[string]string) bool {
	for name, value := range params {
		if name != "charset" || !strings.EqualFold(value, "utf-8") {
			return false
		}
	}
	return true
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
		name, err := fieldName(header)
		if err != nil {
			return form{}, err
		}
		if err := f.add(name, value); err != nil {
			return form{}, err
		}
	}
}

// fieldName reads the headers of one part and returns the name of its field. A part that is more than a field of
// plain text is refused: a file, a multipart within, an encoding of its own (RFC 7578 §4.7).
func fieldName(header string) (string, error) {
	var dispositions, types []string
	for line := range strings.SplitSeq(header, "\r\n") {
		name, value, ok := strings.Cut(line, ":")
		if !ok || !validName(name) || strings.ContainsAny(value, "\r\n\x00") {
			return "", invalidRequest("multipart_malformed") // a folded line has no valid name either
		}
		switch strings.ToLower(name) {
		case "content-disposition":
			dispositions = append(dispositions, strings.TrimSpace(value))
		case "content-type":
			types = append(types, strings.TrimSpace(value))
		case "content-transfer-encoding":
			return "", invalidRequest("multipart_part_unsupported")
		}
	}
	if types != nil {
		media, params, err := parseContentType(types)
		if err != nil {
			return "", err
		}
		if media != "text/plain" || !onlyUTF8(params) {
			return "", invalidRequest("multipart_part_unsupported")
		}
	}
	disposition, params, err := parseContentType(dispositions)
	if err != nil {
		return "", invalidRequest("multipart_malformed")
	}
	if name, named := params["name"]; named && len(params) == 1 && disposition == "form-data" {
		return name, nil
	}
	return "", invalidRequest("multipart_part_unsupported")
}
