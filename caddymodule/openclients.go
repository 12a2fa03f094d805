package caddymodule

import (
	"fmt"

	"github.com/caddyserver/caddy/v2"

	"github.com/gatehouse-auth/gatehouse/caddymodule/coverage"
	"github.com/gatehouse-auth/gatehouse/tokenissuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/clientmetadata"
)

// clientDocuments hold the documents of clients that describe themselves, by all of the settings. They outlive a reload.
var clientDocuments = caddy.NewUsagePool()

// pooledDocuments are documents in the pool.
type pooledDocuments struct{ *clientmetadata.Documents }

// Destruct closes what is open once no configuration uses the documents any more.
func (p pooledDocuments) Destruct() error {
	p.Close()
	return nil
}

// provisionDocuments takes the documents from the pool, or makes them. It fetches nothing.
func (a *App) provisionDocuments() error {
	if a.settings.Open.DocumentsOff {
		return nil
	}
	settings := a.settings.Open.Documents
	settings.Now = a.node.StoreTime
	a.documentsKey = fmt.Sprintf("%p %#v", a.node, []any{settings.Allow, settings.Deny, settings.AllowPrivateNetwork})
	pooled, _, err := clientDocuments.LoadOrNew(a.documentsKey, func() (caddy.Destructor, error) {
		return pooledDocuments{clientmetadata.New(settings)}, nil
	})
	if err != nil {
		return err
	}
	a.issuer.Open.Documents = pooled.(pooledDocuments)
	return nil
}

// releaseDocuments gives the documents back to the pool.
func (a *App) releaseDocuments() error {
	if a.documentsKey == "" {
		return nil
	}
	_, err := clientDocuments.Delete(a.documentsKey)
	return err
}

// admitClients says which clients may make themselves known, once all routes are known.
func (a *App) admitClients(found *coverage.Result) {
	open := a.settings.Open
	admitted := tokenissuer.Admitted{Documents: open.DocumentsOn, DocumentScopes: open.DocumentScopes}
	a.issuer.Open.Publish(admitted)
	if err := a.handler.PublishMetadata(); err != nil {
		a.logger.Error("the metadata do not say which clients are admitted: " + err.Error())
	}
}
