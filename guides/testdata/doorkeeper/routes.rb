Service.routes.draw do
  use_doorkeeper
  devise_for :users
  get "/orders", to: "orders#index"
  root to: "orders#index"
end
