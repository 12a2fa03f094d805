-- The tables that the generators of Doorkeeper 5.9 and Devise 4.9 describe (lib/generators/doorkeeper/templates/migration.rb.erb;
-- lib/generators/active_record/devise_generator.rb with Confirmable and Lockable), as Active Record makes them in PostgreSQL.
CREATE TABLE oauth_applications (
    id bigserial PRIMARY KEY, name character varying NOT NULL, uid character varying NOT NULL UNIQUE, secret character varying NOT NULL,
    redirect_uri text NOT NULL, scopes character varying DEFAULT '' NOT NULL, confidential boolean DEFAULT true NOT NULL,
    created_at timestamp(6) without time zone NOT NULL, updated_at timestamp(6) without time zone NOT NULL
);
CREATE TABLE oauth_access_tokens (
    id bigserial PRIMARY KEY, resource_owner_id bigint, application_id bigint REFERENCES oauth_applications (id), token character varying NOT NULL UNIQUE,
    refresh_token character varying UNIQUE, expires_in integer, scopes character varying, created_at timestamp(6) without time zone NOT NULL,
    revoked_at timestamp(6) without time zone, previous_refresh_token character varying DEFAULT '' NOT NULL
);
CREATE INDEX ON oauth_access_tokens (resource_owner_id);
CREATE TABLE users (
    id bigserial PRIMARY KEY, email character varying DEFAULT '' NOT NULL, encrypted_password character varying DEFAULT '' NOT NULL,
    reset_password_token character varying, remember_created_at timestamp(6) without time zone, sign_in_count integer DEFAULT 0 NOT NULL,
    current_sign_in_ip inet, confirmed_at timestamp(6) without time zone, locked_at timestamp(6) without time zone, failed_attempts integer DEFAULT 0 NOT NULL,
    full_name character varying, teams character varying[], created_at timestamp(6) without time zone NOT NULL
);
