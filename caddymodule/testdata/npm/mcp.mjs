// Drives an MCP server behind Gatehouse with the SDK of the Model Context Protocol: what a client does that knows nothing but the
// server's address.

import assert from 'node:assert/strict'

import { check, given, runChecks } from './checks.mjs'
import { Agent, UnauthorizedError, connect, holdConnected, textOf } from './mcp-agent.mjs'

const { server, document, ada } = given

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

check('a client id metadata document', async () => {
  const agent = new Agent({ documentURL: document })
  const { client } = await holdConnected(agent)
  assert.equal(agent.client.client_id, document)
  agent.spoil()
  assert.match(await textOf(client, 'whoami'), new RegExp(`^${ada.id} by ${document} `))
  assert.equal(agent.visits, 1)
  await client.close()
})

// Programs on the user's machine listen at whatever port is free.
for (const host of ['127.0.0.1', 'localhost', '[::1]']) {
  for (const [how, known] of Object.entries({
    'was registered before': { id: 'desk' }, 'registers itself': {}, 'describes itself': { documentURL: document },
  })) {
    check(`a client at a port of ${host} that ${how}`, async () => {
      const port = 49152 + Math.floor(Math.random() * 16384)
      const { client } = await holdConnected(new Agent({ ...known, callback: `http://${host}:${port}/callback` }))
      await client.close()
    })
  }
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

check('refresh, for eight requests at once, and later', async () => {
  const agent = new Agent({ id: 'agent' })
  const { client } = await holdConnected(agent)
  const first = agent.saved.refresh_token
  // Whether its token was just renewed, the first SDK remembers for all requests: a 401 that comes late, to the token before, ends that request.
  const late = (error) => {
    if (given.sdk !== 1 || !error.message.includes('401 after successful authentication')) throw error
    return textOf(client, 'whoami')
  }
  for (let round = 0; round < 3; round++) {
    agent.spoil()
    const answers = await Promise.all(Array.from({ length: 8 }, () => textOf(client, 'whoami').catch(late)))
    assert.equal(new Set(answers).size, 1)
    assert.notEqual(agent.saved.refresh_token, first)
  }
  await client.close()
  agent.spoil()
  const later = await connect(agent)
  await textOf(later.client, 'whoami')
  assert.equal(agent.visits, 1)
  await later.client.close()
})

// The revision of 2026 has neither sessions nor streams that a client opens.
if (given.sdk === 1) check('GET opens a stream of events, and DELETE ends the session', async () => {
  const answers = new Map()
  let opened
  const streams = new Promise((resolve) => { opened = resolve })
  const { client, transport } = await holdConnected(new Agent({ id: 'agent' }), server, (method, answer) => {
    answers.set(method, answer)
    if (method === 'GET' && answer.headers.get('content-type') === 'text/event-stream') opened(answer.status)
  })
  assert.equal(await streams, 200)
  assert.ok(transport.sessionId)
  await transport.terminateSession()
  assert.equal(answers.get('DELETE').status, 204)
  assert.equal(transport.sessionId, undefined)
  await client.close()
})

await runChecks()
process.exit(0) // a check that failed may have left a connection behind
