// Serves node oidc-provider as somebody else's identity provider at which people sign in. The Go test says on standard input what
// happens to it, a word on each line, and reads "done" when it has: register URI..., start, stop, rotate, slow, lie MEMBER JSON, truth, end.

import { createServer } from 'node:http'
import { createInterface } from 'node:readline'

import { exportJWK, generateKeyPair, importJWK, SignJWT } from 'jose'
import { Provider } from 'oidc-provider'

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]()
const given = JSON.parse((await lines.next()).value)

async function newKey(kid) {
  const { privateKey } = await generateKeyPair('ES256', { extractable: true })
  return { ...(await exportJWK(privateKey)), kid, alg: 'ES256', use: 'sig' }
}

let keys = [await newKey('key-1')]
let rotations = 1
let redirectURIs = []
let answer // undefined: it is away
let slow = false
let lies = {}

// A person's claims follow from the name that was typed at the provider.
function claimsOf(id) {
  return {
    sub: id, name: `${id} of the provider`, email: `${id}@example.com`, email_verified: !id.startsWith('unverified'),
    realm_access: { roles: ['engineering', id] },
  }
}

function provider() {
  return new Provider(given.issuer, {
    jwks: { keys },
    clients: [{
      client_id: given.client.id, client_secret: given.client.secret, redirect_uris: redirectURIs,
      post_logout_redirect_uris: redirectURIs, id_token_signed_response_alg: 'ES256',
      token_endpoint_auth_method: 'client_secret_basic',
    }],
    scopes: ['openid', 'email', 'profile', 'roles'],
    claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['name'], roles: ['realm_access'] },
    findAccount: async (_ctx, id) => ({ accountId: id, claims: async () => claimsOf(id) }),
    pkce: { required: () => true },
    cookies: { keys: ['a key of the test'] },
    features: { devInteractions: { enabled: true }, rpInitiatedLogout: { enabled: true } },
  })
}

// lying puts other claims into the ID token of a token response, and signs it again.
async function lying(body) {
  const answer = JSON.parse(body)
  if (!answer.id_token || Object.keys(lies).length === 0) return body
  const claims = JSON.parse(Buffer.from(answer.id_token.split('.')[1], 'base64url'))
  answer.id_token = await new SignJWT({ ...claims, ...lies }).setProtectedHeader({ alg: 'ES256', kid: keys[0].kid })
    .sign(await importJWK(keys[0], 'ES256'))
  return JSON.stringify(answer)
}

// The server holds its port all the time, so that nobody else gets it. Away means that it cuts every connection.
const server = createServer((request, response) => {
  if (!answer) {
    request.socket.destroy()
    return
  }
  if (slow) return // until the client gives up
  if (new URL(request.url, given.issuer).pathname === '/token') {
    const end = response.end.bind(response)
    response.end = (body) => {
      lying(String(body)).then((text) => {
        response.setHeader('content-length', Buffer.byteLength(text))
        end(text)
      })
      return response
    }
  }
  answer(request, response)
})
await new Promise((resolve, reject) => server.once('error', reject).listen(new URL(given.issuer).port, '127.0.0.1', resolve))

function start() {
  answer = provider().callback()
}

function stop() {
  answer = undefined
  server.closeAllConnections()
}

const words = {
  start, stop,
  register: (uri, rest) => { redirectURIs = [uri, ...rest.split(' ').filter(Boolean)] },
  rotate: async () => {
    keys = [await newKey(`key-${++rotations}`)]
    start()
  },
  slow: () => { slow = true },
  lie: (member, json) => { lies = { [member]: JSON.parse(json) } },
  truth: () => { slow = false; lies = {} },
}

for (;;) {
  const { value, done } = await lines.next()
  if (done || value === 'end') break
  const [word, member, ...rest] = value.split(' ')
  await words[word](member, rest.join(' '))
  console.log('done')
}
process.exit(0)
