// The client is an MCP client that knows nothing but the server's address:
//
//	go run ./client [-id ID] http://127.0.0.1:8080/mcp [tool [argument=value...]]
//
// It registers itself, prints where to sign in, and then the tools, or what one of them answers. With -id it does not register itself:
// ID is what the operator has registered, or the https URL at which the client describes itself.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

func main() {
	id := flag.String("id", "", "the client's id, when it does not register itself")
	flag.Parse()
	if flag.NArg() < 1 {
		log.Fatal("write `client [-id ID] URL [tool [argument=value...]]`")
	}
	if err := run(context.Background(), *id, flag.Arg(0), flag.Args()[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, id, address string, call []string) error {
	callbacks, redirectURI, err := listen()
	if err != nil {
		return err
	}
	settings := &auth.AuthorizationCodeHandlerConfig{
		RedirectURL: redirectURI,
		AuthorizationCodeFetcher: func(ctx context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
			fmt.Println("Sign in at", args.URL)
			select {
			case result := <-callbacks:
				return result, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		},
		RequestRefreshToken: true,
	}
	switch {
	case strings.HasPrefix(id, "https://"):
		settings.ClientIDMetadataDocumentConfig = &auth.ClientIDMetadataDocumentConfig{URL: id}
	case id != "":
		settings.PreregisteredClient = &oauthex.ClientCredentials{ClientID: id}
	default:
		settings.DynamicClientRegistrationConfig = &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
			ClientName: "Example client", RedirectURIs: []string{redirectURI}, TokenEndpointAuthMethod: "none",
			GrantTypes: []string{"authorization_code", "refresh_token"},
		}}
	}
	login, err := auth.NewAuthorizationCodeHandler(settings)
	if err != nil {
		return err
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "example", Version: "1.0.0"}, nil)
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: address, OAuthHandler: login}, nil)
	if err != nil {
		return err
	}
	defer session.Close() //lint:ignore errcheck nothing is left to do
	if len(call) > 0 {
		return callTool(ctx, session, call[0], call[1:])
	}
	tools, err := session.ListTools(ctx, nil)
	if err != nil {
		return err
	}
	for _, tool := range tools.Tools {
		fmt.Printf("%s: %s\n", tool.Name, tool.Description)
	}
	return nil
}

func callTool(ctx context.Context, session *mcp.ClientSession, name string, pairs []string) error {
	arguments := map[string]any{}
	for _, pair := range pairs {
		key, value, _ := strings.Cut(pair, "=")
		arguments[key] = value
	}
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: arguments})
	if err != nil {
		return err
	}
	for _, c := range result.Content {
		if text, ok := c.(*mcp.TextContent); ok {
			fmt.Println(text.Text)
		}
	}
	if result.IsError {
		return errors.New("the tool has failed")
	}
	return nil
}

// listen waits at a free port for the browser to come back.
func listen() (<-chan *auth.AuthorizationResult, string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	results := make(chan *auth.AuthorizationResult, 1)
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		if r.URL.Path != "/callback" || query.Get("state") == "" {
			http.NotFound(w, r)
			return
		}
		if query.Get("code") == "" {
			log.Printf("not signed in: %s %s", query.Get("error"), query.Get("error_description"))
		}
		select {
		case results <- &auth.AuthorizationResult{Code: query.Get("code"), State: query.Get("state"), Iss: query.Get("iss")}:
		default:
		}
		_, _ = fmt.Fprintln(w, "You can close this window.")
	})}
	go func() { log.Fatal(server.Serve(listener)) }()
	return results, fmt.Sprintf("http://%s/callback", listener.Addr()), nil
}
