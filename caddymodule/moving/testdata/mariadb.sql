-- As postgres.sql, in MariaDB.
CREATE TABLE oauth_applications (
    id bigint AUTO_INCREMENT PRIMARY KEY, name varchar(255) NOT NULL, uid varchar(255) NOT NULL UNIQUE, secret varchar(255) NOT NULL,
    redirect_uri text NOT NULL, scopes varchar(255) DEFAULT '' NOT NULL, confidential tinyint(1) DEFAULT 1 NOT NULL,
    created_at datetime(6) NOT NULL, updated_at datetime(6) NOT NULL
) DEFAULT CHARSET = utf8mb4;
CREATE TABLE oauth_access_tokens (
    id bigint AUTO_INCREMENT PRIMARY KEY, resource_owner_id bigint, application_id bigint, token varchar(255) NOT NULL UNIQUE,
    refresh_token varchar(255) UNIQUE, expires_in int, scopes varchar(255), created_at datetime(6) NOT NULL, revoked_at datetime(6),
    previous_refresh_token varchar(255) DEFAULT '' NOT NULL
) DEFAULT CHARSET = utf8mb4;
CREATE TABLE users (
    id bigint AUTO_INCREMENT PRIMARY KEY, email varchar(255) DEFAULT '' NOT NULL, encrypted_password varchar(255) DEFAULT '' NOT NULL,
    reset_password_token varchar(255), remember_created_at datetime(6), sign_in_count int DEFAULT 0 NOT NULL,
    current_sign_in_ip varchar(255), confirmed_at datetime(6), locked_at datetime(6), failed_attempts int DEFAULT 0 NOT NULL,
    full_name varchar(255), teams varchar(255), created_at datetime(6) NOT NULL
) DEFAULT CHARSET = utf8mb4;
