"""Signs in with Authlib under Starlette as Open WebUI does, with the environment of the guide, and shows what Open WebUI reads of the person."""

import os
import secrets

import uvicorn
from authlib.integrations.starlette_client import OAuth
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.sessions import SessionMiddleware
from starlette.responses import JSONResponse
from starlette.routing import Route

env = os.environ
oauth = OAuth()
oauth.register(
    name="oidc",
    client_id=env["OAUTH_CLIENT_ID"],
    client_secret=env["OAUTH_CLIENT_SECRET"],
    server_metadata_url=env["OPENID_PROVIDER_URL"],
    client_kwargs={"scope": env["OAUTH_SCOPES"]},
)


async def login(request):
    return await oauth.oidc.authorize_redirect(request, str(request.url_for("callback")))


async def callback(request):
    token = await oauth.oidc.authorize_access_token(request)  # verifies the ID token
    user = token["userinfo"]
    if "email" not in user or "name" not in user:
        user = await oauth.oidc.userinfo(token=token)
    return JSONResponse({"sub": user["sub"], "name": user["name"], "email": user["email"], "roles": user[env["OAUTH_ROLES_CLAIM"]]})


app = Starlette(
    routes=[Route("/oauth/oidc/login", login), Route("/oauth/oidc/callback", callback, name="callback")],
    middleware=[Middleware(SessionMiddleware, secret_key=secrets.token_hex())],
)
uvicorn.run(app, host="127.0.0.1", port=int(env["PORT"]))
