// Makes tokens with jose, as an issuer that the gate trusts and as people who would like to be one.

import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { CompactEncrypt, exportJWK, exportSPKI, generateKeyPair, SignJWT, UnsecuredJWT } from 'jose'

import { check, given, runChecks } from './checks.mjs'

const { provider: issuer, route, audience } = given
const pairs = {}
const jwks = { keys: [] }
for (const alg of ['ES256', 'RS256', 'EdDSA', 'PS256', 'ES384']) {
  pairs[alg] = await generateKeyPair(alg, { extractable: true })
  jwks.keys.push({ ...(await exportJWK(pairs[alg].publicKey)), kid: alg, alg, use: 'sig' })
}
// A key of another kind beside them, as large issuers publish: it is never used.
pairs['RSA-OAEP-256'] = await generateKeyPair('RSA-OAEP-256', { extractable: true })
jwks.keys.push({ ...(await exportJWK(pairs['RSA-OAEP-256'].publicKey)), kid: 'RSA-OAEP-256', alg: 'RSA-OAEP-256', use: 'enc' })
pairs.stranger = await generateKeyPair('ES256', { extractable: true })

const server = createServer((request, response) => {
  const answers = {
    '/.well-known/openid-configuration': { issuer, jwks_uri: `${issuer}/jwks` },
    '/jwks': jwks,
  }
  const answer = answers[request.url]
  response.writeHead(answer ? 200 : 404, { 'content-type': 'application/json' }).end(JSON.stringify(answer ?? {}))
})
await new Promise((resolve) => server.listen(new URL(issuer).port, '127.0.0.1', resolve))

function token(claims = {}) {
  return new SignJWT({ client_id: 'app', scope: 'orders.read', ...claims })
    .setIssuer(issuer).setAudience(audience).setSubject('ada').setJti(crypto.randomUUID())
    .setIssuedAt().setExpirationTime('5m')
}

const header = (alg, more = {}) => ({ alg, kid: alg, typ: 'at+jwt', ...more })

async function gate(accessToken) {
  const answer = await fetch(route, { headers: { authorization: `Bearer ${accessToken}` } })
  await answer.arrayBuffer()
  return answer.status
}

check('the gate finds the keys', async () => { // perhaps not within the seconds for which a token waits
  const good = await token().setProtectedHeader(header('ES256')).sign(pairs.ES256.privateKey)
  const deadline = Date.now() + 60_000
  while ((await gate(good)) === 503) assert.ok(Date.now() < deadline, 'it has none')
})
for (const alg of ['ES256', 'RS256', 'EdDSA', 'PS256', 'ES384']) {
  check(`${alg} passes`, async () => {
    assert.equal(await gate(await token().setProtectedHeader(header(alg)).sign(pairs[alg].privateKey)), 200)
  })
}
check('G13 none', async () => {
  const unsecured = new UnsecuredJWT({ client_id: 'app', jti: 'j' })
    .setIssuer(issuer).setAudience(audience).setSubject('ada').setIssuedAt().setExpirationTime('5m').encode()
  assert.ok([400, 401].includes(await gate(unsecured)))
})
check('G14 HS256 with a public key as the secret', async () => {
  for (const secret of [await exportSPKI(pairs.RS256.publicKey), JSON.stringify(jwks.keys[0])]) {
    const forged = await token().setProtectedHeader(header('HS256', { kid: 'RS256' })).sign(new TextEncoder().encode(secret))
    assert.equal(await gate(forged), 401)
  }
})
check('G15 PS256 on an RS256 key', async () => {
  const { kty, n, e, d, p, q, dp, dq, qi } = await exportJWK(pairs.RS256.privateKey)
  const { importJWK } = await import('jose')
  const same = await importJWK({ kty, n, e, d, p, q, dp, dq, qi }, 'PS256')
  assert.equal(await gate(await token().setProtectedHeader(header('PS256', { kid: 'RS256' })).sign(same)), 401)
})
check('G20 a key in the header', async () => {
  const jwk = await exportJWK(pairs.stranger.publicKey)
  assert.equal(await gate(await token().setProtectedHeader(header('ES256', { jwk })).sign(pairs.stranger.privateKey)), 401)
  assert.equal(await gate(await token().setProtectedHeader(header('ES256', { jku: `${issuer}/jwks` })).sign(pairs.stranger.privateKey)), 401)
})
check('G22 encrypted to the key of the set', async () => {
  const plain = new TextEncoder().encode(await token().setProtectedHeader(header('ES256')).sign(pairs.ES256.privateKey))
  const jwe = await new CompactEncrypt(plain)
    .setProtectedHeader({ alg: 'RSA-OAEP-256', enc: 'A256GCM', cty: 'JWT' })
    .encrypt(pairs['RSA-OAEP-256'].publicKey)
  assert.ok([400, 401].includes(await gate(jwe)))
})
check('G34 the same kid with the key of a stranger', async () => {
  assert.equal(await gate(await token().setProtectedHeader(header('ES256')).sign(pairs.stranger.privateKey)), 401)
})
check('G36 expired, and within the leeway', async () => {
  const ago = (seconds) => Math.floor(Date.now() / 1000) - seconds
  const at = (exp) => token().setIssuedAt(ago(600)).setExpirationTime(exp).setProtectedHeader(header('ES256')).sign(pairs.ES256.privateKey)
  assert.equal(await gate(await at(ago(10))), 200)
  assert.equal(await gate(await at(ago(40))), 401)
})
check('G39 for somebody else', async () => {
  const other = await token().setAudience('https://other.example').setProtectedHeader(header('ES256')).sign(pairs.ES256.privateKey)
  assert.equal(await gate(other), 401)
})

await runChecks(async () => {
  server.closeAllConnections()
  server.close()
})
