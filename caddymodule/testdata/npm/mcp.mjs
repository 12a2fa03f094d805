// Drives an MCP server behind Gatehouse with the SDK of the Model Context Protocol: what a client does that knows nothing but the
// server's address. The Go test says which SDK: the first, or the second with the revision of 2026.

import './webcrypto.mjs'

import assert from 'node:assert/strict'

import { check, given, runChecks } from './checks.mjs'
import { Visitor } from './visitor.mjs'

const { issuer, server, callback, document, ada } = given

const { Client, StreamableHTTPClientTransport: Transport, UnauthorizedError } = given.sdk === 2
  ? await import('@modelcontextprotocol/client')
  : {
      ...await import('@modelcontextprotocol/sdk/client/index.js'),
      ...await import('@modelcontextprotocol/sdk/client/streamableHttp.js'),
      ...await import('@modelcontextprotocol/sdk/client/auth.js'),
    }

// Agent is what the SDK asks of an application: it keeps what the SDK gives it, and opens a browser.
class Agent {
  visitor = new Visitor(issuer)
  visits = 0
  clientMetadata = {
    client_name: 'Script', redirect_uris: [callback], token_endpoint_auth_method: 'none',
    grant_types: ['authorization_code', 'refresh_token'], response_types: ['code'],
  }

  constructor({ id, documentURL } = {}) {
    if (id) this.client = { client_id: id }
    this.clientMetadataUrl = documentURL
  }

  get redirectUrl() { return callback }
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

async function connect(agent, address = server) {
  for (const last of [false, true]) {
    const client = new Client({ name: 'script', version: '1.0.0' })
    const transport = new Transport(new URL(address), { authProvider: agent })
    try {
      await client.connect(transport)
      return { client, transport }
    } catch (err) {
      if (last || !(err instanceof UnauthorizedError)) throw err
      await agent.signIn(transport)
    }
  }
}

async function textOf(client, name, args = {}) {
  const { content: [{ text }] } = await client.callTool({ name, arguments: args })
  return text
}

async function holdConnected(agent, address) {
  const { client, transport } = await connect(agent, address)
  assert.match(await textOf(client, 'whoami'), new RegExp(`^${ada.id} by `))
  assert.equal(agent.visits, 1)
  return { client, transport }
}

check('a client that was registered before', async () => {
  const { client } = await holdConnected(new Agent({ id: 'agent' }))
  await client.close()
})

check('dynamic registration', async () => {
  const agent = new Agent()
  const { client } = await holdConnected(agent)
  assert.ok(agent.client.client_id)
  await client.close()
})

if (document) {
  check('a client id metadata document', async () => {
    const agent = new Agent({ documentURL: document })
    const { client } = await holdConnected(agent)
    assert.equal(agent.client.client_id, document)
    await client.close()
  })
}

check('with and without a slash at the end', async () => {
  const agent = new Agent({ id: 'agent' })
  const { client } = await holdConnected(agent, `${server}/`)
  await client.close()
  const again = await connect(agent)
  await again.client.close()
  assert.equal(agent.visits, 1)
})

// The first SDK refreshes its token in place of asking for more, and gives up.
if (given.sdk === 2) check('step-up succeeds in one round', async () => {
  const agent = new Agent({ id: 'agent' })
  const { client, transport } = await holdConnected(agent)
  await assert.rejects(client.callTool({ name: 'add_note', arguments: { text: 'first' } }), UnauthorizedError)
  await agent.signIn(transport)
  assert.equal(await textOf(client, 'add_note', { text: 'second' }), 'Noted.')
  assert.match(await textOf(client, 'read_notes'), new RegExp(`${ada.id}: second`))
  assert.equal(agent.visits, 2)
  await client.close()
})

check('a denied tool is an error and no reason to sign in', async () => {
  const agent = new Agent({ id: 'agent' })
  const { client } = await holdConnected(agent)
  await assert.rejects(client.callTool({ name: 'drop_notes', arguments: {} }), (err) => {
    assert.ok(!(err instanceof UnauthorizedError), err)
    return true
  })
  assert.equal(agent.visits, 1)
  assert.match(await textOf(client, 'whoami'), /by/)
  await client.close()
})

check('refresh, on the next day and for two requests at once', async () => {
  const agent = new Agent({ id: 'agent' })
  const { client } = await holdConnected(agent)
  const first = agent.saved.refresh_token
  agent.spoil()
  await textOf(client, 'whoami')
  assert.notEqual(agent.saved.refresh_token, first)
  agent.spoil()
  const answers = await Promise.all(Array.from({ length: 2 }, () => textOf(client, 'whoami')))
  assert.equal(new Set(answers).size, 1)
  await client.close()
  agent.spoil()
  const later = await connect(agent)
  await textOf(later.client, 'whoami')
  assert.equal(agent.visits, 1)
  await later.client.close()
})

check('the session ends with DELETE', async () => {
  const { client, transport } = await holdConnected(new Agent({ id: 'agent' }))
  if (transport.sessionId) await transport.terminateSession()
  assert.equal(transport.sessionId, undefined)
  await client.close()
})

await runChecks()
process.exit(0) // a check that failed may have left a connection behind
