// Proves who a client is by a JWT that it signs (RFC 7523), with the libraries that people use for it: jose, oauth4webapi, openid-client,
// and the second SDK of the Model Context Protocol.

import './webcrypto.mjs'

import assert from 'node:assert/strict'
import { Client, CrossAppAccessProvider, PrivateKeyJwtProvider, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { importPKCS8, SignJWT } from 'jose'
import * as oauth from 'oauth4webapi'
import * as openid from 'openid-client'

import { check, given, runChecks } from './checks.mjs'
import { Visitor } from './visitor.mjs'

const { issuer, server, callback, keys, idp, agent, ada } = given
const url = new URL(issuer)
const insecure = { [oauth.allowInsecureRequests]: true }
const as = await oauth.processDiscoveryResponse(url, await oauth.discoveryRequest(url, { algorithm: 'oauth2', ...insecure }))

// sign is an assertion as somebody writes it with jose.
async function sign(id, pem, alg, changes = {}) {
  return new SignJWT({ ...changes }).setProtectedHeader({ alg, kid: 'key' }).setIssuer(id).setSubject(id).setAudience(issuer)
    .setJti(crypto.randomUUID()).setIssuedAt().setExpirationTime('1m').sign(await importPKCS8(pem, alg))
}

async function post(form) {
  const response = await fetch(as.token_endpoint, { method: 'POST', body: new URLSearchParams(form) })
  return { status: response.status, body: await response.json() }
}

for (const { id, alg, pem } of keys) {
  const client = { client_id: id }
  const key = await importPKCS8(pem, alg === 'EdDSA' ? 'Ed25519' : alg)

  for (const name of alg === 'EdDSA' ? ['EdDSA', 'Ed25519'] : [alg]) {
    check(`jose, ${name}`, async () => {
      const { status, body } = await post({
        grant_type: 'client_credentials', client_assertion: await sign(id, pem, name),
        client_assertion_type: 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer',
      })
      assert.equal(status, 200, JSON.stringify(body))
    })
  }

  check(`oauth4webapi, ${alg}: client_credentials, authorization_code, refresh_token, introspection, revocation`, async () => {
    const proof = oauth.PrivateKeyJwt({ key, kid: 'key' })
    const answer = await oauth.clientCredentialsGrantRequest(as, client, proof, { scope: 'public' }, insecure)
    assert.ok((await oauth.processClientCredentialsResponse(as, client, answer)).access_token)

    const verifier = oauth.generateRandomCodeVerifier()
    const state = oauth.generateRandomState()
    const location = new URL(as.authorization_endpoint)
    location.search = new URLSearchParams({
      client_id: id, redirect_uri: callback, response_type: 'code', scope: 'public mcp:use', state,
      code_challenge: await oauth.calculatePKCECodeChallenge(verifier), code_challenge_method: 'S256',
    })
    const parameters = oauth.validateAuthResponse(as, client, await new Visitor(issuer).authorize(location, ada), state)
    const exchanged = await oauth.authorizationCodeGrantRequest(as, client, proof, parameters, callback, verifier, insecure)
    const tokens = await oauth.processAuthorizationCodeResponse(as, client, exchanged)
    const refreshed = await oauth.refreshTokenGrantRequest(as, client, proof, tokens.refresh_token, insecure)
    const { access_token: token } = await oauth.processRefreshTokenResponse(as, client, refreshed)
    const introspected = await oauth.introspectionRequest(as, client, proof, token, insecure)
    assert.equal((await oauth.processIntrospectionResponse(as, client, introspected)).active, true)
    await oauth.processRevocationResponse(await oauth.revocationRequest(as, client, proof, token, insecure))
  })

  check(`openid-client, ${alg}`, async () => {
    const config = await openid.discovery(url, id, undefined, openid.PrivateKeyJwt({ key, kid: 'key' }), {
      algorithm: 'oauth2', execute: [openid.allowInsecureRequests],
    })
    assert.equal((await openid.clientCredentialsGrant(config, { scope: 'public' })).scope, 'public')
  })

  check(`openid-client, ${alg}: for another server it is no proof`, async () => {
    const config = await openid.discovery(url, id, undefined, openid.PrivateKeyJwt({ key, kid: 'key' }, {
      [openid.modifyAssertion]: (_, payload) => { payload.aud = 'https://other.example' },
    }), { algorithm: 'oauth2', execute: [openid.allowInsecureRequests] })
    await assert.rejects(openid.clientCredentialsGrant(config, { scope: 'public' }), (err) => {
      assert.equal(err.error ?? err.cause?.[0]?.parameters?.error, 'invalid_client', err.stack)
      return true
    })
  })
}

// whoami connects with a provider of the SDK, and asks the server who is calling.
async function whoami(authProvider) {
  const client = new Client({ name: 'script', version: '1.0.0' })
  await client.connect(new StreamableHTTPClientTransport(new URL(server), { authProvider }))
  const { content: [{ text }] } = await client.callTool({ name: 'whoami', arguments: {} })
  await client.close()
  return text
}

for (const { id, alg, pem } of keys.filter(({ alg }) => alg !== 'EdDSA')) { // of which the SDK reads no PEM
  check(`PrivateKeyJwtProvider, ${alg}`, async () => {
    assert.match(await whoami(new PrivateKeyJwtProvider({ clientId: id, privateKey: pem, algorithm: alg, expectedIssuer: issuer })), new RegExp(`^${id} by ${id} `))
  })
}

check('CrossAppAccessProvider: an identity provider says who uses the application', async () => {
  const key = await importPKCS8(idp.pem, 'ES256')
  let asked
  const provider = new CrossAppAccessProvider({
    clientId: agent.id, clientSecret: agent.secret, expectedIssuer: issuer,
    assertion: (context) => {
      asked = context
      return new SignJWT({ client_id: agent.id, resource: context.resourceUrl, scope: 'mcp:use', email: ada.email, email_verified: true })
        .setProtectedHeader({ alg: 'ES256', kid: idp.kid, typ: 'oauth-id-jag+jwt' }).setIssuer(idp.issuer).setSubject('ada-there')
        .setAudience(context.authorizationServerUrl).setJti(crypto.randomUUID()).setIssuedAt().setExpirationTime('5m').sign(key)
    },
  })
  assert.match(await whoami(provider), new RegExp(`^${ada.id} by ${agent.id} `))
  assert.equal(asked.resourceUrl, server)
})

await runChecks()
process.exit(0) // a check that failed may have left a connection behind
