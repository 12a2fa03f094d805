package command

import (
	"fmt"
	"os"

	"github.com/go-json-experiment/json/jsontext"
)

// readKeySet puts the key set into the request in place of its file. No file takes the keys away.
func readKeySet(request map[string]any) error {
	file, given := request["jwks"].(string)
	switch {
	case !given:
		return nil
	case file == "":
		request["jwks"] = nil
		return nil
	}
	set, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if !jsontext.Value(set).IsValid() {
		return fmt.Errorf("%s is no JSON: write the client's public keys as a JSON Web Key Set", file)
	}
	request["jwks"] = jsontext.Value(set)
	return nil
}
