"""Signs in with Authlib under Flask as pgAdmin does, with the config_local.py that the command line names. It shows the account that it makes."""

import os
import runpy
import secrets
import sys

from authlib.integrations.flask_client import OAuth
from flask import Flask, request, url_for

config = runpy.run_path(sys.argv[1])
sources = {source["OAUTH2_NAME"]: source for source in config["OAUTH2_CONFIG"]}
app = Flask(__name__)
app.secret_key = secrets.token_hex()
oauth = OAuth(app)
for name, source in sources.items():
    kwargs = {"scope": source["OAUTH2_SCOPE"], "verify": source.get("OAUTH2_SSL_CERT_VERIFICATION", True)}
    if "OAUTH2_CHALLENGE_METHOD" in source and "OAUTH2_RESPONSE_TYPE" in source:
        kwargs |= {"code_challenge_method": source["OAUTH2_CHALLENGE_METHOD"], "response_type": source["OAUTH2_RESPONSE_TYPE"]}
    oauth.register(
        name,
        client_id=source["OAUTH2_CLIENT_ID"],
        client_secret=source["OAUTH2_CLIENT_SECRET"],
        access_token_url=source["OAUTH2_TOKEN_URL"],
        authorize_url=source["OAUTH2_AUTHORIZATION_URL"],
        api_base_url=source["OAUTH2_API_BASE_URL"],
        server_metadata_url=source["OAUTH2_SERVER_METADATA_URL"],
        client_kwargs=kwargs,
    )
chosen = {}  # the source whose button was pressed


@app.get("/login")
def login():
    answer = oauth.create_client(request.args["oauth2_button"]).authorize_redirect(url_for("authorize", _external=True))
    chosen["source"] = request.args["oauth2_button"]
    return answer


@app.get("/oauth2/authorize")
def authorize():
    source = sources[chosen.pop("source")]
    client = oauth.create_client(source["OAUTH2_NAME"])
    token = client.authorize_access_token()  # verifies the ID token
    profile = client.get(source["OAUTH2_USERINFO_ENDPOINT"], token=token).json()
    return {"username": profile[source["OAUTH2_USERNAME_CLAIM"]], "email": profile["email"], "auth_source": "oauth2"}


app.run("127.0.0.1", int(os.environ["PORT"]))
