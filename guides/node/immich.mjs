// Signs in with openid-client as the server of Immich does, with the settings of its page of administration. The browser or the mobile
// application hands the server the address that it was sent to, and gets the profile of the person.
import http from "node:http";
import * as oidc from "openid-client";

const settings = JSON.parse(process.env.SETTINGS);
const secret = settings["Client Secret"];
const methods = { client_secret_basic: oidc.ClientSecretBasic, client_secret_post: oidc.ClientSecretPost };
const issuer = await oidc.discovery(
  new URL(settings["Issuer URL"]),
  settings["Client ID"],
  { client_secret: secret, response_types: ["code"], id_token_signed_response_alg: settings["Signing Algorithm"] },
  methods[settings["Token Endpoint Auth Method"]](secret),
);
const begun = new Map(); // the verifiers of those who sign in, by state

async function authorize(redirect_uri) {
  const state = oidc.randomState();
  const parameters = { redirect_uri, state, scope: settings["Scope"] };
  begun.set(state, oidc.randomPKCECodeVerifier());
  if (issuer.serverMetadata().supportsPKCE()) {
    parameters.code_challenge = await oidc.calculatePKCECodeChallenge(begun.get(state));
    parameters.code_challenge_method = "S256";
  }
  return oidc.buildAuthorizationUrl(issuer, parameters).href;
}

async function profile(address) {
  const expectedState = address.searchParams.get("state");
  const tokens = await oidc.authorizationCodeGrant(issuer, address, { expectedState, pkceCodeVerifier: begun.get(expectedState) });
  const claims = tokens.claims();
  return "email" in claims ? claims : oidc.fetchUserInfo(issuer, tokens.access_token, oidc.skipSubjectCheck);
}

const server = http.createServer(async (request, response) => {
  const { pathname, searchParams } = new URL(request.url, "http://localhost");
  try {
    if (pathname === "/authorize") {
      response.writeHead(302, { location: await authorize(searchParams.get("redirect_uri")) }).end();
    } else {
      response.end(JSON.stringify(await profile(new URL(searchParams.get("url")))));
    }
  } catch (error) {
    response.writeHead(500).end(`${error} ${error.cause ?? ""}`);
  }
});
server.listen(process.env.PORT, "127.0.0.1");
