# Makes the tables by the migrations that the generators of both gems write, with the columns of Confirmable and Lockable uncommented, adds the
# applications and people, and prints them as JSON.
require_relative "service"
require "rails/generators"

Rails::Generators.configure!(Service.config.generators)
Dir.chdir(Service.root) do
  Rails::Generators.invoke("doorkeeper:migration", ["--quiet"])
  Rails::Generators.invoke("doorkeeper:pkce", ["--quiet"])
  Rails::Generators.invoke("active_record:devise", ["User", "--quiet", "--force"])
  Dir["db/migrate/*_devise_create_users.rb"].each do |path|
    wanted = File.read(path).gsub(/^( +)# (t\.\S+ +:(?:confirm|unconfirmed|failed_attempts|unlock_token|locked_at).*)$/, '\1\2')
    File.write(path, wanted)
  end
end
ActiveRecord::Migration.verbose = false
ActiveRecord::MigrationContext.new(Service.root.join("db/migrate").to_s, ActiveRecord::SchemaMigration).migrate
[User, Doorkeeper::Application, Doorkeeper::AccessToken].each(&:reset_column_information)

plan = JSON.parse($stdin.read)
people = plan["people"].map do |person|
  user = User.new(email: person["email"], password: person["password"], confirmed_at: (Time.now unless person["state"] == "unconfirmed"))
  user.skip_confirmation_notification!
  user.locked_at = Time.now if person["state"] == "locked"
  user.save!
  user.id
end
applications = plan["applications"].map do |a|
  made = Doorkeeper::Application.create!(name: a["name"], redirect_uri: a["redirect_uri"], scopes: a["scopes"], confidential: a["confidential"])
  { uid: made.uid, secret: made.plaintext_secret }
end
versions = "Doorkeeper #{Doorkeeper::VERSION::STRING}, Devise #{Gem.loaded_specs["devise"].version}, Rails #{Rails.version}, Ruby #{RUBY_VERSION}"
puts({ people: people, applications: applications, versions: versions }.to_json)
