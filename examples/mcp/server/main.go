// The server is an MCP server with three tools. It knows nothing of OAuth: Gatehouse stands in front of it, and says in headers who is
// calling. Nobody else can reach it, since it listens on this machine alone.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// notes are kept in memory. They are safe for concurrent use.
type notes struct {
	mu    sync.Mutex
	lines []string
}

type noteText struct {
	Text string `json:"text" jsonschema:"one line of text"`
}

func answer(text string) (*mcp.CallToolResult, any, error) {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, nil
}

func (n *notes) whoami(_ context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
	user := r.Extra.Header.Get("X-Auth-Subject")
	if user == "" {
		return nil, nil, errors.New("this server is not behind Gatehouse")
	}
	return answer(fmt.Sprintf("%s by %s with %s", user, r.Extra.Header.Get("X-Auth-Client"), r.Extra.Header.Get("X-Auth-Scope")))
}

func (n *notes) read(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return answer(strings.Join(n.lines, "\n"))
}

func (n *notes) add(_ context.Context, r *mcp.CallToolRequest, in noteText) (*mcp.CallToolResult, any, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, r.Extra.Header.Get("X-Auth-Subject")+": "+in.Text)
	return answer("Noted.")
}

func main() {
	address := flag.String("listen", "127.0.0.1:3000", "where to listen")
	flag.Parse()
	n := &notes{lines: []string{"gatehouse: read this with the tool read_notes"}}
	server := mcp.NewServer(&mcp.Implementation{Name: "notes", Version: "1.0.0"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "whoami", Description: "Says who is calling."}, n.whoami)
	mcp.AddTool(server, &mcp.Tool{Name: "read_notes", Description: "Reads all notes."}, n.read)
	mcp.AddTool(server, &mcp.Tool{Name: "add_note", Description: "Adds a note."}, n.add)
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	s := &http.Server{Addr: *address, Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	log.Fatal(s.ListenAndServe())
}
