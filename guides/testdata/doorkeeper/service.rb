# The old service: Doorkeeper for its clients and Devise for its people, in the database at DATABASE_URL. HASHED is the strategy that hashes the
# secrets of applications; tokens are then hashed too.
require "logger"
require "rails"
require "active_record/railtie"
require "action_controller/railtie"
require "devise"
require "doorkeeper"

class Service < Rails::Application
  config.load_defaults 6.1
  config.root = ENV.fetch("SERVICE_ROOT")
  config.paths["config/routes.rb"] = File.expand_path("routes.rb", __dir__)
  config.eager_load = false
  config.secret_key_base = "0123456789abcdef" * 8
  config.hosts.clear
  config.consider_all_requests_local = true
  config.logger, config.log_level = Logger.new($stderr), :warn
end

Devise.setup do |config|
  require "devise/orm/active_record"
  config.secret_key = "fedcba9876543210" * 8
  config.pepper = ENV.fetch("DEVISE_PEPPER")
  config.stretches = 5
  config.case_insensitive_keys = config.strip_whitespace_keys = [:email]
end

Doorkeeper.configure do
  orm :active_record
  resource_owner_authenticator { current_user || warden.authenticate!(scope: :user) }
  resource_owner_from_credentials do
    user = User.find_for_database_authentication(email: params[:username])
    user if user&.valid_for_authentication? { user.valid_password?(params[:password]) } && user&.active_for_authentication?
  end
  grant_flows %w[authorization_code client_credentials password]
  access_token_expires_in 2.hours
  use_refresh_token
  default_scopes :public
  optional_scopes "orders.read"
  skip_authorization { |_owner, client| client.name == "Portal" }
  if ENV["HASHED"]
    hash_token_secrets
    hash_application_secrets using: ENV["HASHED"]
  end
end

class User < ActiveRecord::Base
  devise :database_authenticatable, :recoverable, :rememberable, :validatable, :confirmable, :lockable
end

class ApplicationController < ActionController::Base
end

class OrdersController < ActionController::API
  before_action { doorkeeper_authorize! "orders.read", :public }

  def index
    render json: { served_by: "the old service", person: doorkeeper_token.resource_owner_id }
  end
end

Service.initialize!
