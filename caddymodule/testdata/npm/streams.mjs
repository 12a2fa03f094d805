// Opens WebSockets with ws and event streams with eventsource through the gate, to a server that would go on for ever, and
// sees them end with their token.

import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { EventSource } from 'eventsource'
import { WebSocket, WebSocketServer } from 'ws'

import { check, given, runChecks } from './checks.mjs'

const { issuer, upstream, client } = given

// The application behind the gate: it says who it was told is calling, and then goes on.
const server = createServer((request, response) => {
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  response.write(`data: ${request.headers['x-auth-subject']}\n\n`)
  const timer = setInterval(() => response.write('data: tick\n\n'), 50)
  response.on('close', () => clearInterval(timer))
})
const sockets = new WebSocketServer({ server })
sockets.on('connection', (socket, request) => {
  socket.send(request.headers['x-auth-subject'])
  socket.on('message', (data) => socket.send(`echo ${data}`))
})
await new Promise((resolve) => server.listen(new URL(upstream).port, '127.0.0.1', resolve))

async function token(id) {
  const answer = await fetch(`${issuer}/oauth/token`, {
    method: 'POST',
    body: new URLSearchParams({ grant_type: 'client_credentials', client_id: id, client_secret: client.secret }),
  })
  assert.equal(answer.status, 200)
  return (await answer.json()).access_token
}

async function revoke(accessToken) {
  const answer = await fetch(`${issuer}/oauth/revoke`, {
    method: 'POST',
    body: new URLSearchParams({ token: accessToken, client_id: client.id, client_secret: client.secret }),
  })
  assert.equal(answer.status, 200)
}

function webSocket(accessToken) {
  const headers = accessToken ? { authorization: `Bearer ${accessToken}`, 'x-auth-subject': 'u-admin' } : {}
  const socket = new WebSocket(`${issuer.replace('http:', 'ws:')}/app/socket`, { headers })
  const ended = new Promise((resolve) => socket.once('close', resolve))
  const said = new Promise((resolve, reject) => {
    socket.once('message', (data) => resolve(String(data)))
    socket.once('error', reject)
  })
  return { socket, said, ended }
}

function eventStream(accessToken) {
  let status
  const source = new EventSource(`${issuer}/app/events`, {
    fetch: (url, init) => fetch(url, { ...init, headers: { ...init.headers, authorization: `Bearer ${accessToken}` } }).then((answer) => {
      status = answer.status
      return answer
    }),
  })
  const said = new Promise((resolve) => source.addEventListener('message', (event) => resolve(event.data), { once: true }))
  // The client tries again by itself, and gives up when it is told 401.
  const ended = new Promise((resolve) => source.addEventListener('error', () => {
    if (source.readyState === EventSource.CLOSED) resolve(status)
  }))
  return { source, said, ended }
}

// within fails when something takes much longer than the second that is promised: the machine may be busy.
function within(promise, what) {
  let timer
  const late = new Promise((_, reject) => { timer = setTimeout(() => reject(new Error(`${what} did not end`)), 60_000) })
  return Promise.race([promise, late]).finally(() => clearTimeout(timer))
}

check('a WebSocket passes with a token alone', async () => {
  await assert.rejects(webSocket().said, /401/)
  const { socket, said, ended } = webSocket(await token(client.id))
  assert.equal(await said, client.id)
  const echoed = new Promise((resolve) => socket.once('message', (data) => resolve(String(data))))
  socket.send('hello')
  assert.equal(await echoed, 'echo hello')
  socket.close()
  await ended
})

check('G71 a WebSocket ends with the revocation of its token, and others stay', async () => {
  const accessToken = await token(client.id)
  const doomed = webSocket(accessToken)
  const other = webSocket(await token(client.id))
  await Promise.all([doomed.said, other.said])
  await revoke(accessToken)
  await within(doomed.ended, 'the WebSocket')
  assert.equal(other.socket.readyState, WebSocket.OPEN)
  other.socket.close()
  await other.ended
})

check('G71 an event stream ends with the revocation of its token, and is not let in again', async () => {
  const accessToken = await token(client.id)
  const { source, said, ended } = eventStream(accessToken)
  assert.equal(await said, client.id)
  await revoke(accessToken)
  assert.equal(await within(ended, 'the event stream'), 401)
  source.close()
})

check('G71 both end when their token expires', async () => {
  const accessToken = await token('brief') // for a few seconds
  const socket = webSocket(accessToken)
  const events = eventStream(accessToken)
  assert.deepEqual(await Promise.all([socket.said, events.said]), ['brief', 'brief'])
  await within(socket.ended, 'the WebSocket')
  assert.equal(await within(events.ended, 'the event stream'), 401)
  events.source.close()
})

await runChecks(async () => {
  sockets.close()
  server.closeAllConnections()
  server.close()
})
