// An application that drives an MCP server behind Gatehouse with the SDK of the Model Context Protocol, and knows nothing but the server's
// address. The Go test says which SDK: the first, or the second with the revision of 2026.

import './webcrypto.mjs'

import assert from 'node:assert/strict'

import { given } from './checks.mjs'
import { Visitor } from './visitor.mjs'

const { issuer, server, ada } = given

export const { Client, StreamableHTTPClientTransport: Transport, UnauthorizedError } = given.sdk === 2
  ? await import('@modelcontextprotocol/client')
  : {
      ...await import('@modelcontextprotocol/sdk/client/index.js'),
      ...await import('@modelcontextprotocol/sdk/client/streamableHttp.js'),
      ...await import('@modelcontextprotocol/sdk/client/auth.js'),
    }

// Agent is what the SDK asks of an application: it keeps what the SDK gives it, and opens a browser.
export class Agent {
  visitor = new Visitor(issuer)
  visits = 0

  constructor({ id, documentURL, callback = given.callback } = {}) {
    if (id) this.client = { client_id: id }
    this.clientMetadataUrl = documentURL
    this.redirectUrl = callback
    this.clientMetadata = {
      client_name: 'Script', redirect_uris: [callback], token_endpoint_auth_method: 'none',
      grant_types: ['authorization_code', 'refresh_token'], response_types: ['code'],
    }
  }

  clientInformation() { return this.client }
  saveClientInformation(client) { this.client = client }
  tokens() { return this.saved }
  saveTokens(tokens) { this.saved = tokens }
  codeVerifier() { return this.verifier }
  saveCodeVerifier(verifier) { this.verifier = verifier }
  redirectToAuthorization(location) { this.location = location }
  invalidateCredentials(what) {
    if (what === 'all') this.client = undefined
    this.saved = undefined
  }

  // signIn goes where the SDK sent the browser, and brings the answer back.
  async signIn(transport) {
    this.visits++
    const { searchParams } = await this.visitor.authorize(this.location, ada)
    assert.ok(searchParams.get('code'), searchParams.toString())
    await transport.finishAuth(searchParams.get('code'), searchParams.get('iss') ?? undefined)
  }

  // spoil makes the access token one that is refused, as on the next day.
  spoil() {
    this.saved = { ...this.saved, access_token: `${this.saved.access_token.slice(0, -4)}AAAA` }
  }
}

// connect connects, and signs in once where that is asked for. Answered is told of each answer that the SDK gets.
export async function connect(agent, address = server, answered = () => {}) {
  for (const last of [false, true]) {
    const client = new Client({ name: 'script', version: '1.0.0' })
    const transport = new Transport(new URL(address), {
      authProvider: agent,
      fetch: async (url, init) => {
        const answer = await fetch(url, init)
        answered(init?.method ?? 'GET', answer)
        return answer
      },
    })
    try {
      await client.connect(transport)
      return { client, transport }
    } catch (err) {
      if (last || !(err instanceof UnauthorizedError)) throw err
      await agent.signIn(transport)
    }
  }
}

export async function textOf(client, name, args = {}) {
  const { content: [{ text }] } = await client.callTool({ name, arguments: args })
  return text
}

export async function holdConnected(agent, address, answered) {
  const { client, transport } = await connect(agent, address, answered)
  assert.match(await textOf(client, 'whoami'), new RegExp(`^${ada.id} by `))
  assert.equal(agent.visits, 1)
  return { client, transport }
}
